// A headless Chromium that a test in another language commands: one JSON object a line in, one out. Started by Labor::Browser.
//
//   {"do":"open","url":…,"width":…,"height":…,"dark":bool,"scripts":bool}   a new page, instead of the one before
//   {"do":"value","of":"an expression"}                                     what it is in the page
//   {"do":"look","width":…,"height":…,"dark":bool}                          resizes, and changes the colour scheme
//   {"do":"press","key":…} {"do":"click","on":selector} {"do":"type","on":selector,"text":…}
//   {"do":"shot","file":…,"full":bool}                                      a picture of it
//   {"do":"axe"}                                                            what axe-core has against it
//   {"do":"said"}                                                           what happened since the last time: see `seen`
//
// Answers are {"value":…} or {"error":"…"}. Ends with its standard input.

'use strict';

const fs = require('fs');
const readline = require('readline');

const modules = process.env.LABOR_BROWSER_MODULES;
const { chromium } = require(modules + '/playwright-core');

let browser;
let page;
let seen;

async function open({ url, width, height, dark, scripts }) {
  if (page) await page.context().close();
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', javaScriptEnabled: scripts !== false, locale: 'en-GB',
  });
  page = await context.newPage();
  page.setDefaultTimeout(60000);
  // foreign: requests to anyone but the page's own server; problems: console errors and warnings, exceptions, dialogs.
  seen = { requests: 0, foreign: [], problems: [] };
  const origin = new URL(url).origin;
  page.on('request', (request) => {
    seen.requests += 1;
    if (!request.url().startsWith(origin + '/') && !request.url().startsWith('data:')) seen.foreign.push(request.url());
  });
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) seen.problems.push(message.type() + ': ' + message.text());
  });
  page.on('pageerror', (error) => seen.problems.push('exception: ' + error.stack));
  page.on('dialog', (dialog) => {
    seen.problems.push('dialog: ' + dialog.message());
    dialog.dismiss();
  });
  const answer = await page.goto(url);
  return answer.status();
}

async function axe() {
  // Evaluated by the debugger, which the page's own policy does not concern.
  await page.evaluate(fs.readFileSync(modules + '/axe-core/axe.min.js', 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run(document));
  return found.violations.map(({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.slice(0, 3)
    .map((node) => node.html.slice(0, 160) + ' ' + node.any.map((check) => check.message).join('; ')).join(' | '));
}

const commands = {
  open,
  axe,
  value: ({ of }) => page.evaluate(of),
  look: async ({ width, height, dark }) => {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
  },
  press: ({ key }) => page.keyboard.press(key),
  click: ({ on }) => page.click(on),
  type: ({ on, text }) => page.fill(on, text),
  shot: ({ file, full }) => page.screenshot({ path: file, fullPage: !!full, animations: 'disabled' }).then(() => file),
  said: () => {
    const now = seen;
    seen = { requests: 0, foreign: [], problems: [] };
    return now;
  },
};

async function main() {
  // Started by root, Chromium has no sandbox; all it sees are pages of this test.
  browser = await chromium.launch({ executablePath: process.env.LABOR_CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  console.log(JSON.stringify({ value: browser.version() }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
      answer = { value: (await commands[command.do](command)) ?? null };
    } catch (error) {
      answer = { error: String(error.message || error) };
    }
    console.log(JSON.stringify(answer));
  }
  await browser.close();
}

main().catch((error) => {
  console.log(JSON.stringify({ error: String(error.message || error) }));
  process.exit(1);
});
