//! Who may ask, and what every response says to a browser.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use fathom_http::{bears, is_of_other_site};

use crate::response::refusal;
use crate::seats::{Seat, SeatState};
use crate::shared::Shared;

/// The beginning of the paths of data.
const API: &str = "/api/";
/// From where a browser was sent.
const SITE: &str = "sec-fetch-site";

/// Beside the policy of the page itself, which is in it: forms go to this server, and no page
/// frames this one.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

const FIELDS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::SERVER, "fathom"),
];

/// Answers a request that may not be made, and adds the fields of every response.
pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Extension<Arc<Seat>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match objection(&shared, &request) {
        Some(response) => response,
        None => {
            seat.set(SeatState::Working);
            let response = next.run(request).await;
            // Without data, nothing is kept for it.
            let mut state = seat.state();
            if *state == SeatState::Working {
                *state = SeatState::Idle;
            }
            response
        }
    };
    let fields = response.headers_mut();
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn objection(shared: &Shared, request: &Request) -> Option<Response> {
    let fields = request.headers();
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let line = format!("{}: only GET and HEAD; nothing can be changed here", request.method());
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &line);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    let mut lengths = fields.get_all(header::CONTENT_LENGTH).iter();
    if lengths.any(|length| length != "0") || fields.contains_key(header::TRANSFER_ENCODING) {
        return Some(refusal(StatusCode::BAD_REQUEST, "the request has a body; send none"));
    }
    let host = field(fields, header::HOST).unwrap_or_default();
    let is_data = request.uri().path().starts_with(API);
    // Links of other sites lead to the page, and nowhere else.
    let of_browser = fields.iter().filter(|(name, _)| is_data || *name != SITE);
    let of_browser = of_browser.map(|(name, value)| (name.as_str(), value.as_bytes()));
    if !shared.names.are_in(host, None) || is_of_other_site(host, of_browser) {
        let line = "Host or Origin names another server; use the address that was printed, or add \
                    the name with --name";
        return Some(refusal(StatusCode::FORBIDDEN, line));
    }
    let token = shared.token.as_ref().filter(|_| is_data);
    if token.is_some_and(|token| !bears(field(fields, header::AUTHORIZATION), token.bytes())) {
        let line = "the token is missing or another; open the address that `fathom ui` printed";
        let mut response = refusal(StatusCode::UNAUTHORIZED, line);
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        return Some(response);
    }
    None
}

/// A field, if it is there once.
fn field(fields: &HeaderMap, name: HeaderName) -> Option<&[u8]> {
    let mut all = fields.get_all(name).iter();
    all.next().filter(|_| all.next().is_none()).map(HeaderValue::as_bytes)
}
