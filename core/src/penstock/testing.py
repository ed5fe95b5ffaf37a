"""A module of the old layout."""

from penstock._moved import moved

raise moved(__spec__)
