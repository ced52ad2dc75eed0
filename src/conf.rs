//! Placeholder: under way.
