"""The batches of the training: who made each, what that took, and what the training thread waited for."""
