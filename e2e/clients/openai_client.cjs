// As openai_client.py, through OpenAI's JavaScript library.
const OpenAI = require("openai").default ?? require("openai");
const [base, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: "sk-test", maxRetries: 0 });

const volatile = new Set(["id", "created", "created_at", "request_id", "_request_id"]);
const clean = (v) =>
  Array.isArray(v) ? v.map(clean)
    : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).filter(([k]) => !volatile.has(k)).map(([k, x]) => [k, clean(x)]))
      : v;
const show = (name, v) => console.log(name, JSON.stringify(clean(v)));
const all = async (stream) => { const out = []; for await (const c of await stream) out.push(c); return out; };

// Two tokens come in one event where the server is behind: their texts are joined.
const told = (chunks) => [chunks[0], chunks.map((c) => c.choices[0]?.delta.content ?? "").join(""), chunks.at(-1)];

(async () => {
  const usual = { model, messages: [{ role: "user", content: "Tell me something." }], max_tokens: 12, temperature: 0, seed: 1 };
  const tools = [{ type: "function", function: { name: "weather", parameters: {
    type: "object", properties: { city: { type: "string", enum: ["Rome", "Oslo"] } }, required: ["city"] } } }];
  const tool_choice = { type: "function", function: { name: "weather" } };
  show("chat", await client.chat.completions.create(usual));
  show("stream", told(await all(client.chat.completions.create({ ...usual, stream: true }))));
  show("stream usage", told(await all(client.chat.completions.create({ ...usual, stream: true, stream_options: { include_usage: true } }))));
  show("tool", await client.chat.completions.create({ ...usual, max_tokens: 40, tools, tool_choice }));
  show("completion", await client.completions.create({ model, prompt: "Once", max_tokens: 9, temperature: 0 }));
  for (const [name, change] of Object.entries({ "no such model": { model: "none" }, "too long": { max_tokens: 1e6 } })) {
    try {
      await client.chat.completions.create({ ...usual, ...change });
      console.log(name, "did not fail");
    } catch (e) {
      show(name, [e.constructor.name, e.status, e.error]);
    }
  }
})();
