// Requests to the server of the page, with its token if it needs one. The token comes behind the #
// of the address, which no request contains, and stays in the tabs of this page.

const KEY = 'token';
/** Longer than the server works on any request. */
const TIMEOUT_MS = 70_000;
/** For another tab to answer. */
const TAB_MS = 300;

export type Answer = { text: string } | { error: string; retry: boolean };

let channel: BroadcastChannel | null = null;

/** Keeps a token, and gives it to other tabs that ask for it. */
function keep(token: string): string {
  sessionStorage.setItem(KEY, token);
  channel ??= new BroadcastChannel(KEY);
  channel.addEventListener('message', ({ data }) => {
    if (data === 'token?') channel?.postMessage({ token });
  });
  return token;
}

/** The token of another tab, if one has it. */
function ofOtherTab(): Promise<string | null> {
  const asking = new BroadcastChannel(KEY);
  return new Promise<string | null>((done) => {
    asking.addEventListener('message', ({ data }) => {
      if (typeof data?.token === 'string') done(data.token);
    });
    asking.postMessage('token?');
    setTimeout(() => done(null), TAB_MS);
  }).finally(() => asking.close());
}

/** The token in the address, which it leaves, or that of this tab. */
function ownToken(): string | null {
  const given = new RegExp('^#token=(.+)$').exec(location.hash)?.[1];
  if (given === undefined) return sessionStorage.getItem(KEY);
  history.replaceState(null, '', location.pathname + location.search);
  return given;
}

let token: string | null = null;

/** Takes the token of the address, or that of this tab. */
export function takeToken(): void {
  token = ownToken();
  if (token !== null) keep(token);
  // The address of an open page gets the token in the same tab.
  addEventListener('hashchange', () => {
    const given = ownToken();
    if (given === null || given === token) return;
    keep(given);
    location.reload();
  });
}

const request = (path: string): Promise<Response> =>
  fetch(path, {
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    cache: 'no-store',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });

/** The text of a response, or why there is none, in one line. */
export async function ask(path: string): Promise<Answer> {
  try {
    let response = await request(path);
    if (response.status === 401) {
      const other = await ofOtherTab();
      if (other !== null) {
        token = keep(other);
        response = await request(path);
      }
    }
    const text = await response.text();
    if (response.ok) return { text };
    const { error } = JSON.parse(text) as { error: string };
    return { error, retry: response.status >= 500 };
  } catch {
    return { error: 'fathom ui does not answer; start it again', retry: true };
  }
}
