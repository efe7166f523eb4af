"""Names that take the place of names: a fixed list for each kind (ours)."""

from __future__ import annotations

from collections.abc import Mapping

from audit.corpus.documents import Category

_LISTS: Mapping[Category, str] = {
    "person": (
        "Adela Albin Arlen Astrid Barlow Bente Bruno Cormac Corvin Dalia Denham Dorian Edda Elmer Enzo Fabian Fenton "
        "Freda Galen Greta Hadley Harlan Hedda Idris Ingram Ivo Jarvis Jolan Kasper Keaton Kendra Lambert Leif Lorna "
        "Magnus Marla Merrick Nadine Nestor Odell Orla Osric Paula Perrin Quentin Ramona Roderick Rowena Selma Sidney "
        "Sorrel Tamsin Thea Ulric Ursula Velma Vernon Wanda Wendell Yvette"
    ),
    "location": (
        "Alderfield Ashcombe Barrowby Beckton Birchwood Bramley Calderford Clayhurst Copperdale Dunmere Eastbrook "
        "Elmstead Fairholt Fernhill Foxley Glenbrook Grayrigg Harrowgate Hazelden Highmoor Ironbridge Kestrelton "
        "Kingsmere Langdale Larkhill Lindenau Marshbury Meadowvale Millbrook Northwick Oakridge Otterburn Pinehurst "
        "Quarryton Ravenholm Ridgeway Rosewell Saltmarsh Sandford Stonehaven Thornbury Underhill Wakeley Westmoor "
        "Whitcombe Willowdale Windermoor Yarrow"
    ),
    "organization": (
        "Accord Alpine Amberline Apex Atlas Beacon Bluewater Bridgeway Capstone Cedar Citadel Cobalt Compass Crestline "
        "Delta Eastgate Emberly Evergreen Falcon Fortuna Granite Harbor Helios Horizon Indigo Juniper Keystone Lantern "
        "Lumina Meridian Monarch Northstar Nova Orchard Osprey Pinnacle Quartz Redwood Sable Sierra Solstice Summit "
        "Tandem Trident Unison Vanguard Vertex Zephyr"
    ),
}
NAMES: Mapping[Category, tuple[str, ...]] = {category: tuple(names.split()) for category, names in _LISTS.items()}
"""By category; all other categories are drawn by pattern."""
