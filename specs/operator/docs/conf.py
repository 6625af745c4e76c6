"""The site of the specification of operators, which must be installed: python -m sphinx docs site."""

project = "Operator"
extensions = ["sphinx.ext.autodoc", "conformance.sphinx"]
conformance_spec = "Operator"
html_theme = "furo"
