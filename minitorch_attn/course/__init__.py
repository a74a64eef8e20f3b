"""Course: lessons (as scripts, cells and notebooks), exercises, and the user's progress.

Lessons import `lesson`, `your_turn`, `digit_task`, `ranks` and `rank_messages`. The other modules
are for the commands `mta lesson`, `mta exercise` and `mta build`.
"""
