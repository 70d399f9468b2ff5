//! Responses: their media and how long they are kept; a refusal is one line.

use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{Response, StatusCode};
use serde_json::json;

use crate::view::Problem;

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn refused(problem: &Problem) -> Response<Body> {
    match problem {
        Problem::Wrong(line) => refusal(StatusCode::BAD_REQUEST, line),
        Problem::Missing(line) => refusal(StatusCode::NOT_FOUND, line),
        Problem::Damaged(line) => refusal(StatusCode::UNPROCESSABLE_ENTITY, line),
        Problem::Unavailable(line) => {
            let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, line);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
    }
}

/// A refusal with its reason in one line.
pub(crate) fn refusal(status: StatusCode, line: &str) -> Response<Body> {
    let line = line.lines().collect::<Vec<_>>().join(" ");
    response(status, JSON, "no-store", Body::from(json!({ "error": line }).to_string()))
}

pub(crate) fn response(
    status: StatusCode,
    media: &'static str,
    kept: &'static str,
    body: Body,
) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    response
}
