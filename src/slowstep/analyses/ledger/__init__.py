"""The ledger: every instant belongs to one part of one stage, on the host and on the device."""
