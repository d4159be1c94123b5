"""The error of the report, which needs nothing but Python."""


class ReportError(SystemExit):
    """A setting or a file cannot be used; shown as a message without a stack trace.

    Args:
        errors: complete sentences, one for each problem.
    """

    def __init__(self, *errors: str) -> None:
        super().__init__("\n".join(f"bert-fused-report: error: {error}" for error in errors))
        self.errors = errors
