"""From parallel text to a report, step by step: `command` is its command line, `steps` and `systems` are its tables."""
