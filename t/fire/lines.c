/*
 * An nginx module for tests: `try_lines FILE;` in http{} has nginx read each line of FILE as if it stood in the configuration,
 * goes on after those it refuses, and ends the reading of the configuration with what it counted. Thousands of wrong lines a
 * second, where `nginx -t` tells about the first one only.
 *
 * A line of FILE is a whole piece of http{} with a closing brace at its end. Lines that are accepted are written to
 * FILE.accepted. "silent" counts lines that were refused without a message: nobody could mend such a configuration.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

static char *try_lines(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

static ngx_command_t commands[] = {
    { ngx_string("try_lines"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1, try_lines, 0, 0, NULL },
    ngx_null_command
};

static ngx_http_module_t context = { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL };

ngx_module_t ngx_http_lines_module = {
    NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING
};

ngx_module_t *ngx_modules[] = { &ngx_http_lines_module, NULL };
char *ngx_module_names[] = { "ngx_http_lines_module", NULL };
char *ngx_module_order[] = { NULL };

static ngx_uint_t messages;

static void count(ngx_log_t *log, ngx_uint_t level, u_char *text, size_t length) {
    messages += level <= NGX_LOG_ERR;
}

/* Reads one line as nginx reads the inside of a block; true when nothing was wrong. */
static ngx_int_t try_line(ngx_conf_t cf, ngx_log_t *log, char *line, size_t length) {
    ngx_http_conf_ctx_t *ctx = cf.ctx;
    ngx_http_upstream_main_conf_t *upstreams = ctx->main_conf[ngx_http_upstream_module.ctx_index];
    ngx_http_core_main_conf_t *core = ctx->main_conf[ngx_http_core_module.ctx_index];
    ngx_uint_t known = upstreams->upstreams.nelts, servers = core->servers.nelts;
    ngx_conf_file_t file;
    ngx_buf_t buffer;
    ngx_int_t good;

    ngx_memzero(&file, sizeof file);
    ngx_memzero(&buffer, sizeof buffer);
    buffer.start = buffer.pos = (u_char *) line;
    buffer.end = buffer.last = (u_char *) line + length;
    file.buffer = &buffer;
    file.file.name = cf.conf_file->file.name;
    file.line = 1;
    cf.conf_file = &file;
    cf.log = log;
    cf.args = ngx_array_create(cf.pool, 10, sizeof(ngx_str_t));
    good = cf.args != NULL && ngx_conf_parse(&cf, NULL) == NGX_CONF_OK;
    /* Else each would be compared with all before it. */
    upstreams->upstreams.nelts = known;
    core->servers.nelts = servers;
    return good;
}

static char *try_lines(ngx_conf_t *cf, ngx_command_t *cmd, void *conf) {
    ngx_str_t *args = cf->args->elts;
    ngx_uint_t tried = 0, accepted = 0, silent = 0;
    char name[4096], *line = NULL;
    size_t room = 0;
    ssize_t length;
    ngx_log_t log;
    FILE *in, *out;

    snprintf(name, sizeof name, "%s.accepted", args[1].data);
    in = fopen((char *) args[1].data, "r");
    out = fopen(name, "w");
    if (in == NULL || out == NULL) {
        return "cannot open its file";
    }
    ngx_memzero(&log, sizeof log);
    log.log_level = NGX_LOG_WARN;
    log.writer = count;
    while ((length = getline(&line, &room, in)) > 0) {
        /* nginx cuts words in place, so what was accepted is kept aside; an exact copy, that an overrun is seen. */
        char *copy = ngx_pnalloc(cf->pool, length);
        if (copy == NULL) {
            return NGX_CONF_ERROR;
        }
        ngx_memcpy(copy, line, length);
        messages = 0;
        tried++;
        if (try_line(*cf, &log, copy, length)) {
            accepted++;
            fwrite(line, 1, length, out);
        } else if (messages == 0) {
            silent++;
        }
    }
    free(line);
    fclose(in);
    fclose(out);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "lines: tried %ui, accepted %ui, silent %ui", tried, accepted, silent);
    return NGX_CONF_ERROR;
}
