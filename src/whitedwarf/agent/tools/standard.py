"""The tools that a session has unless it is told otherwise."""

from whitedwarf.agent.home import home
from whitedwarf.agent.tool import Tool, Toolbox
from whitedwarf.agent.tools.bash import Bash, BashStatus, BashStop
from whitedwarf.agent.tools.browser import PROFILE, Browser, find_browser
from whitedwarf.agent.tools.edit import Edit
from whitedwarf.agent.tools.fetch import Fetch
from whitedwarf.agent.tools.jobs import Jobs
from whitedwarf.agent.tools.kept_pages import KeptPages
from whitedwarf.agent.tools.list import List
from whitedwarf.agent.tools.private_folder import PrivateFolder
from whitedwarf.agent.tools.read import More, Read, Reader
from whitedwarf.agent.tools.search import Search
from whitedwarf.agent.tools.visit_page import GoogleSearch, VisitPage
from whitedwarf.agent.tools.write import Write
from whitedwarf.agent.workspace import Workspace


def standard_tools(workspace: Workspace) -> Toolbox:
    """All of them, in the order in which the prompt shows them. `Toolbox.close` ends what they have running."""
    reader, kept = Reader(workspace), PrivateFolder(workspace.let_read)
    pages = KeptPages(kept)
    jobs = Jobs(workspace.root, kept)
    return Toolbox.of(
        Read(reader),
        More(reader),
        Write(workspace),
        Edit(workspace),
        Search(workspace),
        List(workspace),
        Bash(jobs),
        BashStatus(jobs),
        BashStop(jobs),
        Fetch(pages),
        *_browser_tools(pages),
    )


def _browser_tools(pages: KeptPages) -> list[Tool]:
    """Where there is a browser, those that need one."""
    program = find_browser()
    if program is None:
        return []
    browser = Browser(program, home() / PROFILE)
    return [GoogleSearch(browser), VisitPage(browser, pages)]
