// The least that answers a client: one connection at a time, each request answered with the same
// file by sendfile. What a file server can reach with one thread. Usage: sendfile PORT FILE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  signal(SIGPIPE, SIG_IGN);
  int file = open(argv[2], O_RDONLY), one = 1;
  struct stat stat;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (file < 0 || fstat(file, &stat) || bind(listener, (void *)&at, sizeof at) || listen(listener, 16)) {
    perror("sendfile");
    return 1;
  }
  for (;;) {
    int client = accept(listener, 0, 0);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char head[128], request[4096];
    int length = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", (long)stat.st_size);
    // Requests of a client that waits for each response arrive whole.
    while (read(client, request, sizeof request) > 0) {
      off_t offset = 0;
      if (send(client, head, length, MSG_MORE | MSG_NOSIGNAL) != length) break;
      while (offset < stat.st_size && sendfile(client, file, &offset, stat.st_size - offset) > 0) {}
    }
    close(client);
  }
}
