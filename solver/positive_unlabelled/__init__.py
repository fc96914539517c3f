"""Learning from positive and unlabelled rows: plain functions, which the estimators are made of.

All take the matrix of all rows and the numbers of the positive and of the unlabelled ones, so that nothing is copied.
Nothing is imported here: the API reads what a training of positive rows alone says, without the clustering of `roc`.
"""
