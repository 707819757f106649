"""The run report: one page of HTML about a run, finished or not."""

from promptmill.workers.report.page import leave_report, write_report

__all__ = ["leave_report", "write_report"]
