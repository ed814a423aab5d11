# Varnish (7) in front of one host-proxy. Start varnishd with `-p pipe_timeout=90 -p timeout_idle=75`. For several replicas use
# deploy/haproxy: a sealed request must reach the replica to which it is sealed.
vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "8081";
    # host-proxy's --first-byte-timeout and a margin.
    .first_byte_timeout = 90s;
    .between_bytes_timeout = 90s;
}

sub vcl_recv {
    # Channels and WebSocket.
    if (req.http.upgrade) {
        return (pipe);
    }
    # Files of the page carry a hash of their content in their name. Every other answer is about now.
    if (req.url ~ "^/assets/") {
        return (hash);
    }
    return (pass);
}

sub vcl_pipe {
    # The fields of one connection do not pass by themselves.
    if (req.http.upgrade) {
        set bereq.http.upgrade = req.http.upgrade;
        set bereq.http.connection = req.http.connection;
    }
    return (pipe);
}
