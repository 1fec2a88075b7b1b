"""Pure decisions: who shares which slot, in which order, with how much memory."""
