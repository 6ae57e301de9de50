"""Reports: they draw a document (`slowstep.report.document`), they compute nothing."""
