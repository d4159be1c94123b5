"""Judges and ships what the plug-in trains.  It imports the plug-in, which never imports it.

::

    evidence/    what systems translate and attend to; the only part that loads models to judge them
    report/      does BERT help?  Scores, tests and the page
    exporting/   finished models as files: averaged, or in a directory with all that they need
    importing/   checkpoints of other programs
    recipe/      from parallel text to a report, as the commands that a user would type
"""
