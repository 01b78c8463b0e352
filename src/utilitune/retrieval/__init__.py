"""Retrievers: BM25, dense over FAISS, and fusion; index folders that know what made them."""
