#!/usr/bin/env python3
"""The API of comments, as GitHub and GitLab have it, and files of releases, on loopback.

comments.py FOLDER: writes its port to FOLDER/port and its comments to FOLDER/comments.json; serves
FOLDER/releases. The token is `right-token`, on GitHub behind Bearer.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

FOLDER = Path(sys.argv[1])
STRANGER = {
    "id": 1,
    "body": "<!-- fathom-gate:gate --> of a stranger",
    "user": {"type": "User"},
    "author_association": "NONE",
}
# By list; the first page of GitHub's is full.
TALK = {"body": "talk", "user": {"type": "User"}, "author_association": "NONE"}
COMMENTS = {
    "github": [STRANGER] + [{**TALK, "id": at} for at in range(2, 101)],
    "gitlab": [],
}
GITHUB = re.compile(r"/api/repos/own/repo/issues/(?:7/comments|comments/(\d+))$")
GITLAB = re.compile(r"/api/v4/projects/5/merge_requests/7/notes(?:/(\d+))?$")


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def handle_any(self):
        url = urlsplit(self.path)
        if url.path.startswith("/releases/"):
            file = FOLDER / url.path[1:]
            return self.answer(200, file.read_bytes()) if file.is_file() else self.answer(404, b"")
        github, gitlab = GITHUB.match(url.path), GITLAB.match(url.path)
        found = github or gitlab
        sent = self.headers["Authorization"] if github else self.headers["PRIVATE-TOKEN"]
        if not found or sent != ("Bearer right-token" if github else "right-token"):
            return self.answer(401, {"message": "Bad credentials"})
        comments, change = COMMENTS["github" if github else "gitlab"], "PATCH" if github else "PUT"
        number = int(found[1] or 0)
        if self.command == "GET" and not number:
            query = parse_qs(url.query)
            page, size = int(query["page"][0]), int(query["per_page"][0])
            return self.answer(200, comments[(page - 1) * size : page * size])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if self.command == "POST" and not number:
            own = {"id": 1000 + len(comments), "body": body}
            if github:
                own |= {"user": {"type": "Bot"}, "author_association": "NONE"}
            comments.append(own)
        elif self.command == change and number:
            own = next(one for one in comments if one["id"] == number)
            own["body"] = body
        else:
            return self.answer(405, b"")
        (FOLDER / "comments.json").write_text(json.dumps(COMMENTS))
        return self.answer(200, own)

    do_GET = do_POST = do_PATCH = do_PUT = handle_any


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
(FOLDER / "port.new").write_text(str(server.server_address[1]))
(FOLDER / "port.new").rename(FOLDER / "port")
server.serve_forever()
