"""The bodies behind flambeau.nn.functional, and the annotation that scripts know for sizes."""


class _BroadcastingList:
    """BroadcastingList2[int] in a script: a list of 2 ints, or one int for both."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()
