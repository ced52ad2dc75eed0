//! In which form a request for the status is answered: by the end of its path, by the word of the directive, by what the client
//! would rather have.
//!
//! Deciding only. A location of pages (`labor_status html;`) answers JSON to a client that takes JSON and no page: the page's own
//! script asks the address that it came from.

use nginx_sys::{ngx_http_request_t, ngx_table_elt_t};

use crate::ffi;

/// A form of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For people.
    Html,
    /// For Prometheus.
    Metrics,
}

impl Format {
    /// The form of a request in a location whose directive says `word`.
    ///
    /// # Safety
    /// The request is live.
    pub unsafe fn of(r: &ngx_http_request_t, word: Option<Self>) -> Self {
        // SAFETY: the path is the request's.
        if let Some(format) = Self::by_suffix(unsafe { ffi::bytes(r.uri) }) {
            return format;
        }
        // SAFETY: as required.
        match (word, unsafe { preference(r) }) {
            (Some(Self::Metrics), _) => Self::Metrics,
            (Some(Self::Json), _) => Self::Json,
            (Some(Self::Html), Preference::Json) => Self::Json,
            (Some(Self::Html), _) | (None, Preference::Html) => Self::Html,
            (None, _) => Self::Json,
        }
    }

    fn by_suffix(path: &[u8]) -> Option<Self> {
        if path.ends_with(b".json") {
            Some(Self::Json)
        } else if path.ends_with(b".html") {
            Some(Self::Html)
        } else if path.ends_with(b".prom") {
            Some(Self::Metrics)
        } else {
            None
        }
    }
}

/// What a client would rather have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preference {
    Html,
    Json,
    /// It says nothing, or takes anything.
    None,
}

/// What the `Accept` headers say (RFC 9110, 12.5.1): the type of the higher quality; of two equal ones a page, if it is named.
unsafe fn preference(r: &ngx_http_request_t) -> Preference {
    let (mut html, mut json) = (Quality::default(), Quality::default());
    // SAFETY: the list is initialised; every part has `nelts` elements, which live as long as the request.
    unsafe {
        let mut part = &raw const r.headers_in.headers.part;
        while let Some(p) = part.as_ref() {
            if !p.elts.is_null() {
                let headers = core::slice::from_raw_parts(p.elts.cast::<ngx_table_elt_t>(), p.nelts);
                for header in headers.iter().filter(|h| ffi::bytes(h.key).eq_ignore_ascii_case(b"accept")) {
                    for range in ffi::bytes(header.value).split(|b| *b == b',') {
                        html.weigh(range, b"text/html", b"text/*");
                        json.weigh(range, b"application/json", b"application/*");
                    }
                }
            }
            part = p.next;
        }
    }
    if html.value > json.value || html.value == json.value && html.value > 0 && html.exact {
        Preference::Html
    } else if json.value > html.value {
        Preference::Json
    } else {
        Preference::None
    }
}

/// How much a client wants a type, thousandths; the narrowest range that covers it says.
#[derive(Default)]
struct Quality {
    value: u32,
    narrowness: u8,
    exact: bool,
}

impl Quality {
    fn weigh(&mut self, range: &[u8], exact: &[u8], family: &[u8]) {
        let mut words = range.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let name = words.next().unwrap_or_default();
        let narrowness = if name.eq_ignore_ascii_case(exact) {
            3
        } else if name.eq_ignore_ascii_case(family) {
            2
        } else if name == b"*/*" {
            1
        } else {
            return;
        };
        if narrowness >= self.narrowness {
            let quality = words.find_map(|w| w.strip_prefix(b"q=").or_else(|| w.strip_prefix(b"Q=")));
            *self = Self { value: quality.map_or(1000, thousandths), narrowness, exact: narrowness == 3 };
        }
    }
}

/// A weight such as `0.8`, in thousandths; what is none counts in full, as if it were not there.
fn thousandths(text: &[u8]) -> u32 {
    let number = core::str::from_utf8(text).ok().and_then(|t| t.parse::<f32>().ok());
    number.filter(|n| (0.0..=1.0).contains(n)).map_or(1000, |n| (n * 1000.0) as u32)
}
