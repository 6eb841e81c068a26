"""What scikit-learn does: estimators, pipelines, searches, and what fitting them costs."""
