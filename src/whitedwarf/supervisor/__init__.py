"""Models that start when they are needed and give everything back when idle, behind ports that never change.

A request's way: front.py (sockets, HTTP) → app.py (what is asked) → desk.py (is the model up, may it come up;
schedule.py decides) → launch.py and child.py (processes) → limits.py (does the prompt still fit) → forward.py (bytes)
→ upstream.py.
"""
