//! Requests: redirects, and what each status means.

use std::time::Duration;

use fathom_http::Url;

use crate::connection::{
    ConnectionClient, ConnectionFault, Range, Response, check_part, redirected, unsatisfied,
};

const REDIRECTS_MAX: usize = 5;
/// The pause before the first retry.
pub const PAUSE: Duration = Duration::from_millis(200);

/// Sends a request and follows redirects; the final response and where it came from.
pub fn open(
    client: &ConnectionClient<'_>,
    asked: &Url,
    range: Option<Range<'_>>,
) -> Result<(Response, Url), ConnectionFault> {
    let mut url = asked.clone();
    for _ in 0..=REDIRECTS_MAX {
        let response = client.get(&url, range)?;
        let status = response.head.status;
        if let (416, Some(range)) = (status, range) {
            return Err(unsatisfied(&response, range));
        }
        // At once would be no pause.
        let pause = response.fields.retry_after.map(|it| it.max(PAUSE));
        match (status, &response.fields.location) {
            (200 | 206, _) if status == 200 || range.is_some() => {
                return match &response.fields.coding {
                    None => Ok((response, url)),
                    Some(coding) => Err(ConnectionFault::Final(format!(
                        "the server sends Content-Encoding: {coding}, which was not asked for; \
                         `curl --compressed -O` decodes it"
                    ))),
                };
            }
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                url = redirected(&url, location).map_err(ConnectionFault::Final)?;
            }
            (301 | 302 | 303 | 307 | 308, None) => {
                let text = format!("status {status} (redirect) without Location");
                return Err(ConnectionFault::Final(text));
            }
            (408 | 500 | 502 | 503 | 504, _) => {
                let text = format!("status {status}");
                return Err(ConnectionFault::Passing(text, pause));
            }
            (429, _) => {
                let text = "status 429 (too many requests)".to_owned();
                return Err(match pause {
                    None => ConnectionFault::Final(format!(
                        "{text} without Retry-After; try again later"
                    )),
                    pause => ConnectionFault::Passing(text, pause),
                });
            }
            (401 | 403, _) => {
                let text = format!("status {status}; name a token file by --token-file, or use -H");
                return Err(ConnectionFault::Final(text));
            }
            (404, _) => {
                return Err(ConnectionFault::Final(
                    "status 404: the server has no such file".into(),
                ));
            }
            _ => return Err(ConnectionFault::Final(format!("status {status}, expected 200"))),
        }
    }
    Err(ConnectionFault::Final(format!(
        "more than {REDIRECTS_MAX} redirects, the last to {}{}",
        url.origin(),
        url.path
    )))
}

/// Requests a part of a file of this length.
pub fn open_part(
    client: &ConnectionClient<'_>,
    url: &Url,
    range: Range<'_>,
    length: Option<u64>,
) -> Result<Response, ConnectionFault> {
    let (mut response, _) = open(client, url, Some(range))?;
    if response.head.status != 206 {
        return Err(ConnectionFault::Changed("the file changed on the server".to_owned()));
    }
    check_part(&mut response, range, length)?;
    Ok(response)
}
