-- For /etc/rspamd/rspamd.local.lua, in place of external_services.conf: what speaks for a good mail counts, too.
-- Where the filter does not answer, nothing is said of the mail. docs/mail.md
local rspamd_http = require "rspamd_http"
local ucl = require "ucl"
local url = "http://127.0.0.1:783/checkv2"

local check = rspamd_config:register_symbol{
  name = "PREFSVM_CHECK",
  type = "callback",
  callback = function(task)
    local headers = {}
    local recipients = task:get_recipients("smtp") or {}
    if #recipients == 1 then headers["Deliver-To"] = recipients[1].addr end
    rspamd_http.request{
      task = task, url = url, body = task:get_content(), headers = headers, timeout = 2.0,
      callback = function(err, code, body)
        local parser = ucl.parser()
        if err or code ~= 200 or not parser:parse_string(tostring(body)) then return end
        local said = parser:get_object()
        local far = math.min(1.0, math.abs(said.score - said.required_score) / said.required_score)
        if said.verdict == "spam" then task:insert_result("PREFSVM_SPAM", far, said.model) end
        if said.verdict == "ham" then task:insert_result("PREFSVM_HAM", far, said.model) end
      end
    }
  end
}
for name, score in pairs({PREFSVM_SPAM = 6.0, PREFSVM_HAM = -3.0}) do
  rspamd_config:register_symbol{name = name, type = "virtual", parent = check}
  rspamd_config:set_metric_symbol{name = name, score = score, group = "prefsvm"}
end
