"""One page over all records of a folder: scans, trends, checkpoints, and two scans compared.

It shows fields of records only, and its numbers come from `report.facts` and `compare`.
"""
