"""The page: a template, a style and a script of ours in one file, and nothing from elsewhere.

Whatever comes from rows is escaped by the template; should something get past that, the page's
own policy lets no script run but ours, known by its hash, and nothing be fetched.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from promptmill.pipeline.storage.place import Place
from promptmill.schemas.errors import JobError
from promptmill.static import policy_hash, read_static
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.report.gather import Gathered, gather
from promptmill.workers.report.view import view

log = logging.getLogger(__name__)

REFRESH_SECONDS = 5
"""How often a page of a run still going reloads itself."""


def write_report(root: Place) -> Place:
    """Write the report of a run, as far as it is.

    Returns:
        Where it is.

    Raises:
        JobError: no run was started in this folder, or its files are damaged.
    """
    folder = OutputFolder(root)
    found = gather(folder)
    folder.replace(folder.report, render_page(found).encode())
    if found.driver is None:
        with contextlib.suppress(OSError):  # files of dead attempts are the next start's to remove
            folder.temporary.rmdir()
    return folder.report


def leave_report(folder: OutputFolder, fingerprint: str, say: Callable[[str], None]) -> None:
    """Write the report of a run that ends now; its failure is not the run's.

    Args:
        folder: of the run.
        fingerprint: of the job; the report of another one is left alone.
        say: takes a line for the log.
    """
    try:
        record = folder.read_record()
        if record is not None and record.fingerprint == fingerprint:
            folder.replace(folder.report, render_page(gather(folder, over=True)).encode())
    except (JobError, OSError) as error:
        say(f"warning: no report was written: {error}")
    except Exception:
        log.exception("no report was written; please report this")


def render_page(found: Gathered, *, refresh: bool = False) -> str:
    """The page of a run as HTML; with `refresh` it reloads itself."""
    script = read_static("report/page.js")
    environment = Environment(
        loader=FunctionLoader(read_static),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report/page.html").render(
        view=view(found),
        style=Markup(read_static("report/style.css")),
        script=Markup(script),
        script_hash=policy_hash(script),
        refresh=REFRESH_SECONDS if refresh else None,
    )
