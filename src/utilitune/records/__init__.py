"""What flows through the line: passages, queries, runs, labels, pairs, answers; their files; validation."""

from utilitune.records.answer import Answer
from utilitune.records.answers import read_answers, write_answers
from utilitune.records.atomic import read_json, write_json, write_text
from utilitune.records.beir import iter_corpus, load_dataset, write_dataset
from utilitune.records.dataset import Dataset
from utilitune.records.hashes import file_hash, folder_hash
from utilitune.records.label import Labels, Status, UtilityLabel
from utilitune.records.labels import read_labels, write_labels
from utilitune.records.manifest import manifest
from utilitune.records.pair import PreferencePair
from utilitune.records.pairs import read_pairs, write_pairs
from utilitune.records.passage import Passage
from utilitune.records.qrels import read_qrels, write_qrels
from utilitune.records.query import Query, Turn
from utilitune.records.report import Report
from utilitune.records.rewrites import read_rewrites
from utilitune.records.rows import read_rows, write_rows
from utilitune.records.run import Qrels, Run
from utilitune.records.share import check_share
from utilitune.records.split import split_by_field, split_queries
from utilitune.records.trec import read_run, write_run
from utilitune.records.validation import validate_folder

__all__ = [
    "Answer",
    "Dataset",
    "Labels",
    "Passage",
    "PreferencePair",
    "Qrels",
    "Query",
    "Report",
    "Run",
    "Status",
    "Turn",
    "UtilityLabel",
    "check_share",
    "file_hash",
    "folder_hash",
    "iter_corpus",
    "load_dataset",
    "manifest",
    "read_answers",
    "read_json",
    "read_labels",
    "read_pairs",
    "read_qrels",
    "read_rewrites",
    "read_rows",
    "read_run",
    "split_by_field",
    "split_queries",
    "validate_folder",
    "write_answers",
    "write_dataset",
    "write_json",
    "write_labels",
    "write_pairs",
    "write_qrels",
    "write_rows",
    "write_run",
    "write_text",
]
