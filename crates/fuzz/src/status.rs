//! The status' query, compiled from the module's source; what it uses of the rest stands in for that.

#[path = "../../../src/status/query.rs"]
pub mod query;

/// Names as the status shows them.
mod text {
    use std::borrow::Cow;

    pub fn text(bytes: &[u8]) -> Cow<'_, str> {
        String::from_utf8_lossy(bytes)
    }
}
