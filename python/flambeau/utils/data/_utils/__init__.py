"""What the loader is made of: collation, fetching, pinning, workers."""

from flambeau.utils.data._utils import collate, fetch, pin_memory, worker

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks at workers that stay silent
