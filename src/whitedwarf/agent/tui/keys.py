"""The keys, as bindings and as help."""

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("ctrl+c", "stop_or_leave", priority=True),
    Binding("escape", "interrupt", priority=True),
    Binding("ctrl+x", "take_queued", priority=True),
    Binding("ctrl+o", "fold", priority=True),
    Binding("pageup", "page(-1)", priority=True),
    Binding("pagedown", "page(1)", priority=True),
    Binding("ctrl+home", "to_start", priority=True),
    Binding("ctrl+end", "to_end", priority=True),
    Binding("ctrl+l", "redraw", priority=True),
    Binding("f1", "keys", priority=True),
    Binding("ctrl+z", "suspend_process", priority=True),
]

HELP = """\
Enter             send; while the agent works: queue
Alt+Enter, Ctrl+J new line (Shift+Enter, where the terminal tells it)
Up, Down          what was typed before
Tab               complete a command, and ids after /switch
Esc               interrupt; what is queued is sent then
Ctrl+X            the first queued text back into the editor
Ctrl+C            interrupt; clear the line; twice on an empty line: leave
Ctrl+D            on an empty line: leave
Ctrl+O            open or fold all thoughts and outputs (a click: one)
PgUp, PgDn        scroll (also the mouse); Ctrl+Home, Ctrl+End: to the ends
Ctrl+L            draw everything again
F1                this list
/theme [NAME]     colours"""
