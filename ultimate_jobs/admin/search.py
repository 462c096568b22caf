"""The form over the list of jobs: every filter is an exact value."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.identity import MAX_BYTES
from ultimate_jobs.states import JobState

STATES = {
    JobState.READY.value: _("ready"),
    JobState.DELAYED.value: _("delayed"),
    JobState.RUNNING.value: _("running"),
    JobState.SUSPENDED.value: _("suspended"),
    JobState.COMPLETED.value: _("completed"),
    JobState.DEAD.value: _("dead"),
    JobState.CANCELLED.value: _("cancelled"),
}


class JobSearch(forms.Form):
    """What to look for; ``before`` is where the page before ended."""

    state = forms.ChoiceField(
        label=_("State"), choices=[("", _("any")), *STATES.items()], required=False
    )
    queue = forms.CharField(label=_("Queue"), max_length=MAX_BYTES["queue"], required=False)
    name = forms.CharField(label=_("Name"), max_length=MAX_BYTES["name"], required=False)
    tenant = forms.CharField(label=_("Tenant"), max_length=MAX_BYTES["tenant"], required=False)
    key = forms.CharField(label=_("Key"), max_length=MAX_BYTES["key"], required=False)
    id = forms.UUIDField(label=_("Id"), required=False, widget=forms.TextInput(attrs={"size": 36}))
    before = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def conditions(self) -> dict[str, Any]:
        """Return the filled-in fields as conditions on columns; ``before`` is none of them."""
        return {
            column: self.cleaned_data[field]
            for field, column in _COLUMNS.items()
            if self.cleaned_data.get(field)
        }


_COLUMNS = {
    "state": "state",
    "queue": "queue",
    "name": "name",
    "tenant": "tenant_id",
    "key": "idempotency_key",
    "id": "id",
}
