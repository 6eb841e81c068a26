"""Environments: competitions in MLE-Dojo's layout."""
