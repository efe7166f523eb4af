"""Name the formats of a verdict for machines, once.

json         verdict.schema.json
markdown     the whole verdict, for the summary of a job
comment      what an attacker reached, for a pull request
badge        a line for a README: the endpoint format of shields.io
junit        JUnit XML: a test suite an attack, a test case a limit
sarif        SARIF 2.1.0: open limits at the file of the policy
"""

FORMATS = {
    "json": "document",
    "markdown": "words",
    "comment": "words",
    "badge": "words",
    "junit": "texts",
    "sarif": "texts",
}
"""The module of `audit.report.verdicts` whose function `as_NAME` draws a format, by the format's
name; it is imported when it is asked for."""
