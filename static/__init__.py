"""Files shipped with the package: demo model and data, report page."""
