//! Why a request is refused, and with which status.

/// Reasons, each with its status and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BareLineFeed,
    BareCarriageReturn,
    Nul,
    BlankLines,
    LongTarget,
    LargeHead,
    ManyFields,
    Syntax,
    Version,
    Target,
    Path,
    Host,
    Duplicate,
    ContentLength,
    /// Without `chunked` as the last coding the content has no end.
    Coding,
    TransferEncoding,
    Body,
    Expectation,
    Method,
    PostOnly,
    UnknownMethod,
    LengthRequired,
    SlowHead,
    Unauthorized,
    Forbidden,
    Foreign,
    NotFound,
    Precondition,
    Unreadable,
    Busy,
    Queued,
    Late,
    Held,
    Stopping,
    Upgrade,
    EarlyBytes,
    ManyFarEnds,
    Dose,
    Source,
    Time,
}

/// A refusal, and whether the connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: Refusal,
    pub(crate) close: bool,
}

impl Refusal {
    /// The next bytes cannot be trusted to be a request.
    pub(crate) fn close(self) -> Refused {
        Refused { why: self, close: true }
    }

    pub(crate) fn keep(self) -> Refused {
        Refused { why: self, close: false }
    }

    pub(crate) fn status(self) -> u16 {
        self.entry().0
    }

    pub(crate) fn text(self) -> &'static str {
        self.entry().1
    }

    /// The methods that are allowed, where another was used.
    pub(crate) fn allow(self) -> Option<&'static str> {
        match self {
            Self::Method => Some("GET, HEAD"),
            Self::PostOnly => Some("POST"),
            _ => None,
        }
    }

    fn entry(self) -> (u16, &'static str) {
        match self {
            Self::BareLineFeed => (400, "line feed without carriage return"),
            Self::BareCarriageReturn => (400, "carriage return without line feed"),
            Self::Nul => (400, "NUL in the head"),
            Self::BlankLines => (400, "blank lines before the request"),
            Self::LongTarget => (414, "request line too long"),
            Self::LargeHead => (431, "head too large"),
            Self::ManyFields => (431, "too many header fields"),
            Self::Syntax => (400, "malformed request"),
            Self::Version => (505, "only HTTP/1.1 and HTTP/1.0 are supported"),
            Self::Target => (400, "the target must be an ASCII path without fragment"),
            Self::Path => {
                (400, "invalid path: dot segment, escaped slash, NUL or malformed escape")
            }
            Self::Host => (400, "exactly one valid Host field is required"),
            Self::Duplicate => (400, "duplicate header field"),
            Self::ContentLength => (400, "Content-Length must be digits"),
            Self::Coding => (400, "the last transfer coding must be chunked"),
            Self::TransferEncoding => (501, "Transfer-Encoding is not supported"),
            Self::Body => (400, "a request body is not accepted"),
            Self::Expectation => (417, "unsupported expectation"),
            Self::Method => (405, "method not allowed"),
            Self::PostOnly => (405, "only POST is allowed"),
            Self::UnknownMethod => (501, "unknown method"),
            Self::LengthRequired => (411, "Content-Length: 0 is required"),
            Self::SlowHead => (408, "the head took too long"),
            Self::Unauthorized => (401, "a valid bearer token is required"),
            Self::Forbidden => (403, "permission denied"),
            Self::Foreign => (403, "Host or Origin does not name this server"),
            Self::NotFound => (404, "not found"),
            Self::Precondition => (412, "precondition failed"),
            Self::Unreadable => (500, "the file cannot be read"),
            Self::Busy => (503, "too many connections or open files"),
            Self::Queued => (503, "too many requests wait for the disk"),
            Self::Late => (503, "the disk or the service took too long"),
            Self::Held => (503, "too many clients read large pages"),
            Self::Stopping => (503, "the service stops"),
            Self::Upgrade => (426, "Connection: Upgrade and Upgrade: fathom-far/1 are required"),
            Self::EarlyBytes => (426, "nothing may follow the request before the 101 response"),
            Self::ManyFarEnds => (503, "too many far ends"),
            Self::Dose => (400, "malformed or too large Fathom-Dose"),
            Self::Time => (400, "disk/MILLISECONDS, 1 to 60000"),
            Self::Source => (400, "source/BYTES or source/BYTES/CONGESTION, at most 1 GiB"),
        }
    }
}
