import assert from "node:assert/strict";
import { test } from "node:test";
import { authOf, headersOf, linesOf } from "./credentials.ts";

test("headers are lines, and a value can name a secret", () => {
  const headers = { "X-Team": "billing: eu", Authorization: { secret: "billing-token" } };
  assert.equal(linesOf(headers), "X-Team: billing: eu\nAuthorization: secret:billing-token");
  assert.deepEqual(headersOf(`${linesOf(headers)}\n\n`), headers);
});

test("credentials that the form cannot write stay as they are", () => {
  assert.deepEqual(authOf("oauth2", "", ""), {});
  assert.deepEqual(authOf("none", "", ""), { auth: null });
  assert.deepEqual(authOf("basic", "me", "secret:pw"), {
    auth: { kind: "basic", username: "me", password: { secret: "pw" } },
  });
});
