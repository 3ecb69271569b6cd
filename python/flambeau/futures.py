"""Results that arrive later, as torch.futures has them."""

import threading

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that some thread sets once; callbacks run in that thread, or at once if it is there already.

    `devices` is taken for torch's sake: results on the CPU need no waiting beyond that of the threads.

    Example:
        >>> answer = flambeau.futures.Future()
        >>> doubled = answer.then(lambda f: f.value() * 2)
        >>> answer.set_result(21)
        >>> doubled.wait()
        42
    """

    def __init__(self, *, devices=None):
        self._ready = threading.Condition()
        self._outcome = None  # (value, exception) once it is there
        self._callbacks = []

    def done(self) -> bool:
        """Is the result, or the exception, there?"""
        return self._outcome is not None

    def wait(self):
        """The result, as soon as it is there. Raises the exception that was set instead."""
        with self._ready:
            self._ready.wait_for(self.done)
        return self.value()

    def value(self):
        """The result. Raises RuntimeError if it is not there yet, or the exception that was set."""
        if self._outcome is None:
            raise RuntimeError("Future: value() needs a result; use wait()")
        value, exception = self._outcome
        if exception is not None:
            raise exception
        return value

    def set_result(self, result) -> None:
        """Sets the result and runs the callbacks. Raises RuntimeError the second time."""
        self._finish((result, None))

    def set_exception(self, result) -> None:
        """Sets an exception that wait() and value() raise."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish((None, result))

    def _finish(self, outcome):
        with self._ready:
            if self._outcome is not None:
                raise RuntimeError("Future: the result was set before")
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
            self._ready.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback) -> None:
        """Calls callback(self) once the result is there."""
        with self._ready:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback) -> "Future":
        """A Future of callback(self), which runs once the result is there."""
        following = Future()

        def run(future):
            try:
                following.set_result(callback(future))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following


def collect_all(futures) -> Future:
    """A Future of the list of futures, there once all of them are; it raises the first of their exceptions.

    Example:
        >>> parts = [flambeau.futures.Future(), flambeau.futures.Future()]
        >>> whole = flambeau.futures.collect_all(parts)
        >>> for i, part in enumerate(parts):
        ...     part.set_result(i)
        >>> [part.value() for part in whole.wait()]
        [0, 1]
    """
    futures, whole, lock = list(futures), Future(), threading.Lock()
    left = len(futures)

    def count(future):
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            failed = [f._outcome[1] for f in futures if f._outcome[1] is not None]
            whole.set_exception(failed[0]) if failed else whole.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        whole.set_result(futures)
    return whole


def wait_all(futures) -> list:
    """The results of all futures, once they are there.

    Example:
        >>> parts = [flambeau.futures.Future()]
        >>> parts[0].set_result("ready")
        >>> flambeau.futures.wait_all(parts)
        ['ready']
    """
    return [future.wait() for future in collect_all(futures).wait()]
