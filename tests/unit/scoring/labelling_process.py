"""Labels a small world in a process of its own: ``labelling_process.py OUT STORE LOG DELAY``."""

import sys
import time
from pathlib import Path

from small_world import small_world
from tiny_generator import Counted, TinyNumpy

from utilitune.scoring import label_file

SPECS = ["information-gain,max_new_tokens=3", "grogu:key-entropy,tau=0.5,max_new_tokens=3", "abstention"]


class Slow(Counted):
    def run(self, tasks):
        time.sleep(float(sys.argv[4]))
        return super().run(tasks)


if __name__ == "__main__":
    out, store, log = (Path(each) for each in sys.argv[1:4])
    dataset, run = small_world(12, 3)
    generator = Slow(TinyNumpy(seed=1), log)
    label_file(out, dataset, run, SPECS, generator, k=3, store=store, chunk_items=3)
