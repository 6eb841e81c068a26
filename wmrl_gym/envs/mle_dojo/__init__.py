"""MLE-Dojo: a language-model agent writes scripts for machine-learning competitions."""
