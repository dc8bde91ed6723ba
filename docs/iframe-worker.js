// Browsers do not start workers for pages opened from disk. A hidden frame does their work there, so
// that a copy of the site can be searched without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.inside = frame.contentWindow;
      frame.contentDocument.open();
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      frame.contentDocument.write(`<script src="${url}"></` + "script>");
      frame.contentDocument.close();
      this.loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
