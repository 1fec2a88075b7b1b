"""The training SDK: phases, parameter servers, data blocks."""
