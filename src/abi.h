/*
 * What the C compiler says about the nginx structures this module touches: one constant per size and per field offset.
 *
 * build.rs hands this file to bindgen together with the include paths and definitions nginx was configured with, and adds a
 * compile-time assertion for each constant, so that Rust bindings of another layout cannot become a module. Fields that came
 * with a later nginx stand behind its version number. Bit-fields have no offset in C and are left out. No code belongs here.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#define SIZE(type) static const size_t SIZEOF_##type = sizeof(type)
#define OFFSET(type, field) static const size_t OFFSETOF_##type##__##field = offsetof(type, field)

/* One server of an upstream: written by nginx, by this module, and by other workers through shared memory. */
SIZE(ngx_http_upstream_rr_peer_t);
OFFSET(ngx_http_upstream_rr_peer_t, sockaddr);
OFFSET(ngx_http_upstream_rr_peer_t, socklen);
OFFSET(ngx_http_upstream_rr_peer_t, name);
OFFSET(ngx_http_upstream_rr_peer_t, server);
OFFSET(ngx_http_upstream_rr_peer_t, current_weight);
OFFSET(ngx_http_upstream_rr_peer_t, effective_weight);
OFFSET(ngx_http_upstream_rr_peer_t, weight);
OFFSET(ngx_http_upstream_rr_peer_t, conns);
OFFSET(ngx_http_upstream_rr_peer_t, max_conns);
OFFSET(ngx_http_upstream_rr_peer_t, fails);
OFFSET(ngx_http_upstream_rr_peer_t, accessed);
OFFSET(ngx_http_upstream_rr_peer_t, checked);
OFFSET(ngx_http_upstream_rr_peer_t, max_fails);
OFFSET(ngx_http_upstream_rr_peer_t, fail_timeout);
OFFSET(ngx_http_upstream_rr_peer_t, down);
OFFSET(ngx_http_upstream_rr_peer_t, lock);
OFFSET(ngx_http_upstream_rr_peer_t, next);
#if (nginx_version >= 1027003)
OFFSET(ngx_http_upstream_rr_peer_t, refs);
OFFSET(ngx_http_upstream_rr_peer_t, host);
#endif
#if (nginx_version >= 1029006)
OFFSET(ngx_http_upstream_rr_peer_t, sid);
#endif

/* The list of servers. */
SIZE(ngx_http_upstream_rr_peers_t);
OFFSET(ngx_http_upstream_rr_peers_t, number);
OFFSET(ngx_http_upstream_rr_peers_t, shpool);
OFFSET(ngx_http_upstream_rr_peers_t, rwlock);
OFFSET(ngx_http_upstream_rr_peers_t, zone_next);
OFFSET(ngx_http_upstream_rr_peers_t, total_weight);
OFFSET(ngx_http_upstream_rr_peers_t, tries);
OFFSET(ngx_http_upstream_rr_peers_t, name);
OFFSET(ngx_http_upstream_rr_peers_t, next);
OFFSET(ngx_http_upstream_rr_peers_t, peer);
#if (nginx_version >= 1027003)
OFFSET(ngx_http_upstream_rr_peers_t, config);
OFFSET(ngx_http_upstream_rr_peers_t, resolve);
#endif

/* What a request remembers of the list: first field of this module's own data. */
SIZE(ngx_http_upstream_rr_peer_data_t);
OFFSET(ngx_http_upstream_rr_peer_data_t, config);
OFFSET(ngx_http_upstream_rr_peer_data_t, peers);
OFFSET(ngx_http_upstream_rr_peer_data_t, current);
OFFSET(ngx_http_upstream_rr_peer_data_t, tried);
OFFSET(ngx_http_upstream_rr_peer_data_t, data);

/* The connection to be made. */
SIZE(ngx_peer_connection_t);
OFFSET(ngx_peer_connection_t, connection);
OFFSET(ngx_peer_connection_t, sockaddr);
OFFSET(ngx_peer_connection_t, socklen);
OFFSET(ngx_peer_connection_t, name);
OFFSET(ngx_peer_connection_t, tries);
OFFSET(ngx_peer_connection_t, start_time);
OFFSET(ngx_peer_connection_t, get);
OFFSET(ngx_peer_connection_t, free);
OFFSET(ngx_peer_connection_t, notify);
OFFSET(ngx_peer_connection_t, data);
OFFSET(ngx_peer_connection_t, set_session);
OFFSET(ngx_peer_connection_t, save_session);
OFFSET(ngx_peer_connection_t, log);
#if (nginx_version >= 1029006)
OFFSET(ngx_peer_connection_t, hint);
OFFSET(ngx_peer_connection_t, sid);
#endif

/* The request to the server: what the outcome is read from. */
SIZE(ngx_http_upstream_t);
OFFSET(ngx_http_upstream_t, peer);
OFFSET(ngx_http_upstream_t, pipe);
OFFSET(ngx_http_upstream_t, conf);
OFFSET(ngx_http_upstream_t, upstream);
OFFSET(ngx_http_upstream_t, headers_in);
OFFSET(ngx_http_upstream_t, length);
OFFSET(ngx_http_upstream_t, start_time);
OFFSET(ngx_http_upstream_t, state);
SIZE(ngx_http_upstream_state_t);
OFFSET(ngx_http_upstream_state_t, status);
OFFSET(ngx_http_upstream_state_t, response_time);
OFFSET(ngx_http_upstream_state_t, header_time);
OFFSET(ngx_http_upstream_state_t, peer);
SIZE(ngx_http_upstream_headers_in_t);
OFFSET(ngx_http_upstream_headers_in_t, headers);
OFFSET(ngx_http_upstream_headers_in_t, status_n);
OFFSET(ngx_http_upstream_headers_in_t, content_length_n);

/* The configured upstream block. */
SIZE(ngx_http_upstream_srv_conf_t);
OFFSET(ngx_http_upstream_srv_conf_t, peer);
OFFSET(ngx_http_upstream_srv_conf_t, srv_conf);
OFFSET(ngx_http_upstream_srv_conf_t, servers);
OFFSET(ngx_http_upstream_srv_conf_t, flags);
OFFSET(ngx_http_upstream_srv_conf_t, host);
OFFSET(ngx_http_upstream_srv_conf_t, shm_zone);

/* The client's request and connection. */
SIZE(ngx_http_request_t);
OFFSET(ngx_http_request_t, connection);
OFFSET(ngx_http_request_t, ctx);
OFFSET(ngx_http_request_t, upstream);
OFFSET(ngx_http_request_t, upstream_states);
OFFSET(ngx_http_request_t, pool);
SIZE(ngx_connection_t);
OFFSET(ngx_connection_t, read);
OFFSET(ngx_connection_t, write);
OFFSET(ngx_connection_t, log);
