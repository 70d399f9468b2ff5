//! The answer to a request.

use std::net::IpAddr;

use fathom_http::{bears, is_of_other_site};
use fathom_record::openmetrics::MEDIA_TYPE;
use httparse::{EMPTY_HEADER, Error, Request, Status};

/// A longer head is refused.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;
const FIELDS_MAX: usize = 64;
const PATH: &str = "/metrics";

/// `None` while the head is incomplete.
pub(super) fn answer(
    received: &[u8],
    token: Option<&str>,
    text: impl FnOnce() -> String,
) -> Option<Vec<u8>> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = Request::new(&mut fields);
    let (status, more) = match request.parse(received) {
        Ok(Status::Complete(_)) => check(&request, token),
        Ok(Status::Partial) if received.len() < HEAD_BYTES_MAX => return None,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
            ("431 Request Header Fields Too Large", "")
        }
        Err(_) => ("400 Bad Request", ""),
    };
    let (kind, body) = match status {
        "200 OK" => (MEDIA_TYPE, text()),
        _ => ("text/plain", format!("{status}\n")),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\
         Connection: close\r\n\r\n"
    );
    let body = if request.method == Some("HEAD") { String::new() } else { body };
    Some((head + &body).into_bytes())
}

/// The status, and a field that belongs to it.
fn check(request: &Request<'_, '_>, token: Option<&str>) -> (&'static str, &'static str) {
    let all = request.headers.iter().map(|field| (field.name, field.value));
    let value = |name: &str| {
        let mut found = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        found.next().map(|field| field.value).filter(|_| found.next().is_none())
    };
    match token {
        Some(token) if !bears(value("Authorization"), token.as_bytes()) => {
            return ("401 Unauthorized", "WWW-Authenticate: Bearer\r\n");
        }
        // A page of another site may ask, or may have a name that resolves to loopback.
        None if !value("Host").is_some_and(|host| is_own(host) && !is_of_other_site(host, all)) => {
            return ("403 Forbidden", "");
        }
        _ => {}
    }
    let path = request.path.unwrap_or("").split('?').next();
    match request.method {
        Some("GET" | "HEAD") if path == Some(PATH) => ("200 OK", ""),
        Some("GET" | "HEAD") => ("404 Not Found", ""),
        _ => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
    }
}

/// Whether a Host is an address or `localhost`, with or without a port.
fn is_own(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str, token: Option<&str>) -> Option<String> {
        let text = answer(request.as_bytes(), token, || "x 1\n".to_owned())?;
        Some(String::from_utf8(text).unwrap().split(' ').nth(1).unwrap().to_owned())
    }

    #[test]
    fn answer_is_the_text_with_its_media_type() {
        let get = b"GET /metrics?x HTTP/1.1\r\nHost: localhost:9\r\n\r\n";
        let found = String::from_utf8(answer(get, None, || "x 1\n".to_owned()).unwrap()).unwrap();
        let expected = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 4\r\nConnection: \
             close\r\n\r\nx 1\n"
        );
        assert_eq!(found, expected);
        let head = String::from_utf8_lossy(get).replace("GET", "HEAD");
        let found = answer(head.as_bytes(), None, || "x 1\n".to_owned()).unwrap();
        assert_eq!(found, expected.trim_end_matches("x 1\n").as_bytes());
    }

    #[test]
    fn requests_are_refused_by_status() {
        let get = |rest: &str| format!("GET /metrics HTTP/1.1\r\n{rest}\r\n");
        let whole = get("Host: 127.0.0.1:9100\r\n");
        for (request, expected) in [
            (whole.clone(), Some("200")),
            (whole[..whole.len() - 1].to_owned(), None),
            (get("Host: [::1]:9100\r\n"), Some("200")),
            (get("Host: evil.example\r\n"), Some("403")),
            (get("Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n"), Some("403")),
            (get("Host: [::1]:9\r\nOrigin: http://[::1]:9\r\n"), Some("200")),
            (get("Host: [::1]:9\r\nOrigin: http://evil.example\r\n"), Some("403")),
            (get("Host: [::1]\r\nOrigin: http://[::1]\r\nOrigin: null\r\n"), Some("403")),
            (get("Host: [::1]\r\nSec-Fetch-Site: cross-site\r\n"), Some("403")),
            (get(""), Some("403")),
            (whole.replace("/metrics", "/"), Some("404")),
            (whole.replace("GET", "POST"), Some("405")),
            ("what?\r\n\r\n".to_owned(), Some("400")),
            (get(&"a: b\r\n".repeat(FIELDS_MAX + 1)), Some("431")),
            (get(&"a".repeat(HEAD_BYTES_MAX))[..HEAD_BYTES_MAX].to_owned(), Some("431")),
        ] {
            assert_eq!(status(&request, None).as_deref(), expected, "{request}");
        }
    }

    #[test]
    fn token_replaces_the_check_of_the_host() {
        let token = Some("0123456789abcdef0123456789abcdef");
        let with = |field: &str| {
            status(&format!("GET /metrics HTTP/1.1\r\nHost: far\r\n{field}\r\n"), token).unwrap()
        };
        assert_eq!(with(""), "401");
        assert_eq!(with("Authorization: Bearer 0123\r\n"), "401");
        assert_eq!(with("Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"), "200");
    }
}
