//! Facts of streams from codec configuration records.
