"""Reports: they draw a document (`slowstep.document.report`), they compute nothing."""
