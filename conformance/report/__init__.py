"""A report, and the forms it is given in: terminal, JSON, HTML, JUnit, GitHub annotations, a badge."""
