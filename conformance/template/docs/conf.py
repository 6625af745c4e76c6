"""The site of the specification: python -m sphinx docs site."""

project = "GatedSum"
extensions = ["sphinx.ext.autodoc", "conformance.sphinx"]
conformance_spec = "GatedSum"
autodoc_default_options = {"members": True}
